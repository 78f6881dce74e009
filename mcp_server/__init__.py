"""MCP: the built-in tools as a server, and a proxy that shadows any other server."""
