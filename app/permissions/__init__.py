"""What may be done: rules on parsed commands and on paths, modes, remembered answers.

Nothing in here runs anything or asks anybody; it reads a call and says allow, ask or deny, and why.
"""
