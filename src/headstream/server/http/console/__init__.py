"""The console: a page for browsers, served together with the routes that it calls. The page's sources are in console/."""
