package headstream;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;

/**
 * Delta's log in S3, whose commits the store itself refuses if they are there already.
 *
 * <p>Delta's own class looks whether a commit exists and then writes it: of two Spark drivers that do so at the same time, the
 * later one replaces the commit of the other. Here the object is created with the condition `If-None-Match: *`. If the response of
 * the store is lost, the repeated request is refused too: the commit is then recognized by Delta's random id in its first line.
 */
public class ConditionalS3LogStore extends S3SingleDriverLogStore {
    /** Option and capability of S3A since Hadoop 3.4.2. */
    private static final String CONDITION = "fs.option.create.conditional.overwrite";

    public ConditionalS3LogStore(Configuration configuration) {
        super(configuration);
    }

    @Override
    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration) throws IOException {
        FileSystem system = path.getFileSystem(configuration);
        if (overwrite || !system.hasPathCapability(path, CONDITION)) {
            super.write(path, actions, overwrite, configuration);
            return;
        }
        FSDataOutputStreamBuilder<?, ?> builder = system.createFile(path);
        builder.recursive().overwrite(true).must(CONDITION, true);
        FSDataOutputStream stream = (FSDataOutputStream) builder.build();
        boolean isWhole = false;
        String first = null;
        try {
            while (actions.hasNext()) {
                String action = actions.next();
                first = first == null ? action : first;
                stream.write((action + "\n").getBytes(StandardCharsets.UTF_8));
            }
            isWhole = true;
        } finally {
            if (!isWhole) {
                stream.abort();
            }
        }
        try {
            stream.close();
        } catch (RemoteFileChangedException error) {
            if (first == null || !first.contains("\"txnId\"") || !first.equals(readFirst(system, path))) {
                throw (IOException) new FileAlreadyExistsException(path.toString()).initCause(error);
            }
        }
    }

    private static String readFirst(FileSystem system, Path path) throws IOException {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(system.open(path), StandardCharsets.UTF_8))) {
            return lines.readLine();
        }
    }
}
