"""What every test may rely on, wherever the suite is started from."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# A shell starts its background jobs, a suite among them, with Ctrl-C ignored, which programs that tests start and
# interrupt would inherit. A handler, unlike being ignored, is not inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says more of the machine than of what is tested.
settings.register_profile("headstream", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headstream")
