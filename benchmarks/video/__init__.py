"""Videos to tracks: `endcap infer` beside OpenCV's and ultralytics' ways to do the same."""
