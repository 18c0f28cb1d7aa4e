"""Values, frozen and slotted: what a user holds. No bytes on a wire, no clock, no I/O."""
