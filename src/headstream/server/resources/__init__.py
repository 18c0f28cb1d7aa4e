"""What all transports share of the process: threads and memory."""
