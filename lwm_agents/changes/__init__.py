"""What a rehearsal would change: shown as a diff, committed for real, undone, discarded."""
