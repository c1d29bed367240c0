"""What these pages are made with: pictures, code that runs when they are built, pages from the registries."""
