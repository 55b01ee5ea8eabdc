"""The git-hook door: what a commit or push would put into history is tested, and a patch proposed."""
