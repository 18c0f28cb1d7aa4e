"""What every test may rely on, wherever the suite is started from."""

from __future__ import annotations

import signal

# A shell starts its background jobs, a suite among them, with Ctrl-C ignored, which programs that tests start and
# interrupt would inherit. A handler, unlike being ignored, is not inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)
