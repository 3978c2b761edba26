"""Versioned values: ledger, change log, audit."""
