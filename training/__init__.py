"""The sample detector's scenes, training and measurement; README.md is its model card."""
