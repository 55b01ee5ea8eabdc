"""Tools of MCP servers: configuration, connections, schemas and results.

The ``mcp`` package is an optional extra and is imported only when a server is started.
"""
