"""The terminal interface: it shows the event stream and answers permission questions."""
