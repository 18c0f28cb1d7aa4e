"""`headstream inspect`: what any bytes are, field by field, and where and why they break."""
