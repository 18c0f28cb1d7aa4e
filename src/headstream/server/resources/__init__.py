"""Resources of the process that all transports share: threads and memory."""
