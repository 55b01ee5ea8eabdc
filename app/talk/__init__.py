"""`whimbrel run`: one turn of a general conversation about a repository."""
