"""What is proved: exact moments of algorithms, without sampling."""
