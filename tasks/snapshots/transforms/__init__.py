"""The kinds of transforms: a file with a class of `transform.Transform` is found, and no other line names it.

Files of this folder import neither TensorFlow nor Pillow at their top, as the config is read by processes that compute
nothing.
"""
