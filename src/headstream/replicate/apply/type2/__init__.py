"""Every version of a row (SCD type 2): the events of a key are replayed into versions."""
