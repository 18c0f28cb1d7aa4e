package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

func main() {
	login := kgo.SASL(plain.Auth{User: "iggy", Pass: "iggy"}.AsMechanism())
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	producer, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]), login, kgo.DefaultProduceTopic(os.Args[2]))
	if err != nil { panic(err) }
	for n := 0; n < 1000; n++ {
		record := &kgo.Record{Key: []byte("k"), Value: []byte(fmt.Sprint(n)), Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}}}
		producer.Produce(ctx, record, func(_ *kgo.Record, err error) { if err != nil { panic(err) } })
	}
	if err := producer.Flush(ctx); err != nil { panic(err) }
	producer.Close()
	consumer, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]), login, kgo.ConsumerGroup("go"), kgo.ConsumeTopics(os.Args[2]), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	if err != nil { panic(err) }
	next := 0
	for next < 1000 {
		fetches := consumer.PollFetches(ctx)
		if errs := fetches.Errors(); len(errs) > 0 { panic(fmt.Sprint(errs)) }
		fetches.EachRecord(func(record *kgo.Record) {
			if string(record.Value) != fmt.Sprint(next) || string(record.Key) != "k" || len(record.Headers) != 1 { panic(fmt.Sprint(record)) }
			next++
		})
	}
	if err := consumer.CommitUncommittedOffsets(ctx); err != nil { panic(err) }
	consumer.Close()
	fmt.Println("read", next)
	admin, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]), login)
	if err != nil { panic(err) }
	askAsConsole(ctx, admin, os.Args[2], "go")
	admin.Close()
}
