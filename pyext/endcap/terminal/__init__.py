"""Terminal output of commands and tools: consoles, tables, progress, failures."""
