"""What a repository says about how to work in it: instruction files, skills, servers; read as data."""
