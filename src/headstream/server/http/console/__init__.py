"""The console: a page for browsers, served beside the routes that it calls. Its sources are in console/."""
