package bench;

import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.hadoop.HadoopTables;
import org.apache.iceberg.spark.SparkSchemaUtil;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Iceberg's tables in a directory, as a catalog of Spark 4.2, for beside_auto_cdc.py.
 *
 * <p>Iceberg 1.12 is released for Spark 4.1. Spark 4.2 rejects its catalog, since that has views too, and its tables call a method
 * that Spark 4.2 has with other arguments; the tables themselves work.
 */
public class IcebergTables implements TableCatalog {
  private final HadoopTables tables = new HadoopTables(new Configuration());
  private String name;
  private String warehouse;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    this.warehouse = options.get("warehouse");
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Identifier[] listTables(String[] namespace) {
    return new Identifier[0];
  }

  @Override
  public Table loadTable(Identifier identifier) throws org.apache.spark.sql.catalyst.analysis.NoSuchTableException {
    try {
      return new OpenedTable(tables.load(place(identifier)));
    } catch (NoSuchTableException error) {
      throw new org.apache.spark.sql.catalyst.analysis.NoSuchTableException(identifier);
    }
  }

  @Override
  public Table createTable(Identifier identifier, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    StructType type = new StructType();
    for (Column column : columns) {
      type = type.add(column.name(), column.dataType(), column.nullable());
    }
    Map<String, String> kept = new HashMap<>(properties);
    kept.remove("provider");
    kept.put("format-version", "2");
    Schema schema = SparkSchemaUtil.convert(type);
    return new OpenedTable(tables.create(schema, PartitionSpec.unpartitioned(), kept, place(identifier)));
  }

  @Override
  public Table alterTable(Identifier identifier, TableChange... changes)
      throws org.apache.spark.sql.catalyst.analysis.NoSuchTableException {
    org.apache.iceberg.Table table = tables.load(place(identifier));
    for (TableChange change : changes) {
      if (change instanceof TableChange.SetProperty set) {
        if (!set.property().equals("provider")) {
          table.updateProperties().set(set.property(), set.value()).commit();
        }
      } else if (change instanceof TableChange.AddColumn added) {
        table.updateSchema().addColumn(added.fieldNames()[0], SparkSchemaUtil.convert(added.dataType())).commit();
      } else if (change instanceof TableChange.UpdateColumnType updated) {
        var type = SparkSchemaUtil.convert(updated.newDataType()).asPrimitiveType();
        table.updateSchema().updateColumn(updated.fieldNames()[0], type).commit();
      } else {
        throw new UnsupportedOperationException(change.toString());
      }
    }
    return loadTable(identifier);
  }

  @Override
  public boolean dropTable(Identifier identifier) {
    return tables.dropTable(place(identifier));
  }

  @Override
  public void renameTable(Identifier from, Identifier to) {
    throw new UnsupportedOperationException("renameTable");
  }

  private String place(Identifier identifier) {
    return warehouse + "/" + String.join("/", identifier.namespace()) + "/" + identifier.name();
  }

  private static final class OpenedTable extends SparkTable {
    OpenedTable(org.apache.iceberg.Table table) {
      super(table);
    }

    @Override
    public Column[] columns() {
      return CatalogV2Util.structTypeToV2Columns(schema(), false);
    }
  }
}
