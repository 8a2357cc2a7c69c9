"""Files, folders and processes on this machine."""
