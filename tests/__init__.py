"""The tests; a package of its own, as tf2onnx installs a folder of the same name that has none."""
