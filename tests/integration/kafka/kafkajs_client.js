// Sends and reads in a group with kafkajs, resets the group's offsets, and reads again. Arguments: address and topic.
const { Kafka, Partitioners, logLevel } = require('kafkajs')

const [address, topic] = process.argv.slice(2)
const kafka = new Kafka({
  brokers: [address],
  ssl: false,
  sasl: { mechanism: 'plain', username: 'iggy', password: 'iggy' },
  logLevel: logLevel.ERROR,
})
const groupId = 'kafkajs'
const count = 100

async function read() {
  const consumer = kafka.consumer({ groupId })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  const found = []
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer.run({
      eachMessage: async ({ message }) => {
        found.push(`${message.offset} ${message.value} ${message.headers.a}`)
        if (found.length === count) resolve()
      },
    }).catch(reject)
  })
  await consumer.disconnect() // which commits
  return found
}

async function main() {
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner })
  await producer.connect()
  const messages = Array.from({ length: count }, (_, n) => ({ key: 'k', value: `${n}`, headers: { a: `${n}` } }))
  await producer.send({ topic, messages })
  await producer.disconnect()
  const admin = kafka.admin()
  await admin.connect()
  const offset = async () => (await admin.fetchOffsets({ groupId, topics: [topic] }))[0].partitions[0].offset
  const first = await read()
  console.log('committed', await offset())
  await admin.resetOffsets({ groupId, topic, earliest: true })
  console.log('reset to the earliest', await offset())
  const again = await read()
  console.log('read again', first.length, JSON.stringify(first) === JSON.stringify(again))
  await admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: '42' }] })
  console.log('set', await offset())
  await admin.resetOffsets({ groupId, topic })
  console.log('reset to the latest', await offset())
  await admin.disconnect()
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
