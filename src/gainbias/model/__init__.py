"""What is true: Markov reward processes, their structure and their exact long-run values."""
