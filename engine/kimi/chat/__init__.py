"""The family's chat formats: conversations to token ids, token ids to stream events.

Nothing is imported here; start at `format.ChatFormat.load`.
"""
