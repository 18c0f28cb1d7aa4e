"""Every version of a row (SCD type 2): events of a key are replayed into versions, which open and close."""
