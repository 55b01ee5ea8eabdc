"""The headless job: issue and repository in, verified patch and evidence out."""
