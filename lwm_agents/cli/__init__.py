"""The command line, `lwm`."""
