"""Interceptors, which see and can change the messages of a client, for `hs.connect(url, interceptors=[…])`.

    from headstream import interceptors

    log = hs.connect(url, interceptors=[interceptors.Tracing(), interceptors.Compression()])

The interceptors of this package can also be named in the variable HEADSTREAM_INTERCEPTORS (by_name.py).
"""

from __future__ import annotations

from headstream.interceptors.auditing import Auditing
from headstream.interceptors.compression import Compression
from headstream.interceptors.encryption import Encryption
from headstream.interceptors.interceptor import ErrorPolicy, Interceptor, guard
from headstream.interceptors.metrics import Metrics
from headstream.interceptors.tracing import Tracing

__all__ = ["Auditing", "Compression", "Encryption", "ErrorPolicy", "Interceptor", "Metrics", "Tracing", "guard"]
