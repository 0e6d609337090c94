"""What `trialrun batch` can do, one command a file."""
