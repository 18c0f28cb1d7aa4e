# For mypy, `import cython` in a kernel is the module that replaces it when the kernel runs interpreted.
from headstream.core.codec.uncompiled import *  # noqa: F403
