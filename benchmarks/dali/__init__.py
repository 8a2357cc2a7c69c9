"""The pipelines of endcap.dali side by side, and how far DALI's own operators are from endcap's.

Nothing here imports DALI before it is asked for a runner or a picture.
"""
