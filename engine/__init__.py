"""Where answers come from: the ChatModel protocol and everything that implements it."""
