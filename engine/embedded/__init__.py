"""The embedded policy: a ChatModel that repairs by search."""
