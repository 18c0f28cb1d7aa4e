"""Import: the messages of a file into a log, each once, however often the import is broken off and begun again.

reading    the file's lines, with their places, and the messages in them
place      how far an import has come, kept in FILE.progress
topics     what the topics must be like that a file's messages go to
importer   one run: chunk by chunk, each noted before it is sent
"""
