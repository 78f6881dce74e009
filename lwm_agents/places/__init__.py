"""Places: where the code of a tool acts. Modules are imported by name, so that each stays light."""
