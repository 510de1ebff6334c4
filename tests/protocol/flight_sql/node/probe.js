// Uses @lakehouse-rs/flight-sql-client as its documentation says, and prints what it saw: a line of JSON for each
// case. It judges nothing; the test beside it does. Address, password and token come from the environment.
const { createFlightSqlClient } = require("@lakehouse-rs/flight-sql-client");
const { tableFromIPC } = require("apache-arrow");

const [host, port] = process.env.ADDRESS.split(":");
const server = { tls: false, host, port: Number(port), headers: [] };
const byPassword = { ...server, username: "admin", password: process.env.PASSWORD };

function rows(buffer) {
  return tableFromIPC(buffer).toArray().map((row) => row.toJSON());
}

const CASE_MS = 20000;

function late() {
  return new Promise((_resolve, reject) => setTimeout(() => reject(new Error("no answer in time")), CASE_MS));
}

async function print(name, action) {
  let saw;
  try {
    saw = await Promise.race([action(), late()]);
  } catch (error) {
    saw = { error: error.message };
  }
  const plain = (_key, value) => (typeof value === "bigint" ? Number(value) : value);
  console.log(JSON.stringify({ case: name, saw }, plain));
}

async function main() {
  const client = await createFlightSqlClient(byPassword);
  const query = async (sql) => rows(await client.query(sql));
  await print("query", () => query("SELECT id, concat('n', id) AS name FROM range(3) ORDER BY id"));
  await print("empty", () => query("SELECT id FROM range(1) WHERE id < 0"));
  await print("many rows", async () => tableFromIPC(await client.query("SELECT id FROM range(100000)")).numRows);
  await print("types", () =>
    query("SELECT true AS b, 3 AS i, 2.5D AS d, 'ü' AS s, DATE '2024-02-29' AS day, array(1, 2) AS l"));
  await print("create", () => query("CREATE TABLE node.made (id INT)"));
  await print("insert", () => query("INSERT INTO node.made VALUES (1), (2)"));
  await print("count", () => query("SELECT count(*) AS n FROM node.made"));
  await print("catalogs", async () => rows(await client.getCatalogs()));
  await print("schemas", async () => rows(await client.getDbSchemas({ catalog: "lake", dbSchemaFilterPattern: "node" })));
  await print("tables", async () => rows(await client.getTables({ dbSchemaFilterPattern: "node", includeSchema: false })));
  await print("syntax error", () => query("SELEC 1"));
  await print("token", async () => {
    const other = await createFlightSqlClient({ ...server, token: process.env.TOKEN });
    return rows(await other.query("SELECT 41 + 1 AS answer"));
  });
}

// The client's threads would keep the process alive.
main().then(() => process.exit(0));
