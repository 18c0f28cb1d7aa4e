//! Scenarios with Iggy's current Rust client, the crate `iggy` 0.11.0; each checks what it does, and prints what others sent.
//!
//!     scenarios ADDRESS SCENARIO STREAM      ADDRESS is HOST:PORT, http://HOST:PORT, or HOST:PORT/FILE over TLS

use std::collections::BTreeMap;

use iggy::prelude::*;

type Outcome<T> = Result<T, IggyError>;

fn id(name: &str) -> Identifier {
    Identifier::named(name).unwrap()
}

fn make(address: &str) -> IggyClient {
    if address.starts_with("http://") {
        return IggyClientBuilder::new().with_http().with_api_url(address.into()).build().unwrap();
    }
    let (place, authority) = address.split_once('/').unwrap_or((address, ""));
    let builder = IggyClientBuilder::new().with_tcp().with_server_address(place.into());
    if authority.is_empty() {
        return builder.build().unwrap();
    }
    builder.with_tls_enabled(true).with_tls_ca_file(format!("/{authority}")).build().unwrap()
}

async fn connect(address: &str, user: &str, password: &str) -> Outcome<IggyClient> {
    let client = make(address);
    client.connect().await?;
    client.login_user(user, password).await?;
    Ok(client)
}

fn partitions(count: u32) -> TopicCreateOptions {
    TopicCreateOptions { partitions_count: Some(count), ..Default::default() }
}

/// A header of each kind, under the kind's name.
fn kinds() -> BTreeMap<HeaderKey, HeaderValue> {
    let mut found = BTreeMap::new();
    let mut add = |name: &str, value: HeaderValue| found.insert(HeaderKey::try_from(name).unwrap(), value);
    add("raw", HeaderValue::try_from(&[0u8, 255][..]).unwrap());
    add("string", HeaderValue::try_from("tea").unwrap());
    add("bool", HeaderValue::from(true));
    add("int8", HeaderValue::from(-8i8));
    add("int16", HeaderValue::from(-16i16));
    add("int32", HeaderValue::from(-32i32));
    add("int64", HeaderValue::from(-64i64));
    add("int128", HeaderValue::from(-(1i128 << 100)));
    add("uint8", HeaderValue::from(3u8));
    add("uint16", HeaderValue::from(16u16));
    add("uint32", HeaderValue::from(32u32));
    add("uint64", HeaderValue::from(u64::MAX));
    add("uint128", HeaderValue::from(1u128 << 100));
    add("float32", HeaderValue::from(0.5f32));
    add("float64", HeaderValue::from(0.1f64));
    found
}

fn message(text: &str) -> IggyMessage {
    IggyMessage::builder().payload(text.to_owned().into()).build().unwrap()
}

async fn poll(client: &IggyClient, stream: &str, partition: Option<u32>, how: PollingStrategy, count: u32) -> Outcome<PolledMessages> {
    let consumer = Consumer::new(id("reader"));
    client.poll_messages(&id(stream), &id("eu"), partition, &consumer, &how, count, true).await
}

fn texts(polled: &PolledMessages) -> Vec<String> {
    polled.messages.iter().map(|each| String::from_utf8(each.payload.to_vec()).unwrap()).collect()
}

/// Streams, topics with options, partitions, offsets, and what is refused.
async fn administration(address: &str, stream: &str) -> Outcome<()> {
    let client = connect(address, "iggy", "iggy").await?;
    client.ping().await?;
    client.create_stream(stream).await?;
    assert!(client.create_stream(stream).await.is_err());
    let made = client
        .create_topic(
            &id(stream),
            "eu",
            &TopicCreateOptions {
                message_expiry: Some(IggyExpiry::ExpireDuration(IggyDuration::from(7_000_000))),
                durability: Durability::Persisted,
                ..partitions(2)
            },
        )
        .await?;
    assert_eq!(made.partitions.iter().map(|each| each.id).collect::<Vec<_>>(), [0, 1]);
    let raw = BTreeMap::from([("colour".to_owned(), "red".to_owned())]);
    assert!(client.create_topic(&id(stream), "odd", &TopicCreateOptions { raw, ..partitions(1) }).await.is_err());
    client.update_topic(&id(stream), &id("eu"), "europe", &TopicUpdateOptions::default()).await?;
    client.update_topic(&id(stream), &id("europe"), "eu", &TopicUpdateOptions::default()).await?;
    let kept = client.get_topic(&id(stream), &id("eu")).await?.unwrap();
    assert_eq!(kept.message_expiry, IggyExpiry::ExpireDuration(IggyDuration::from(7_000_000)));
    client.create_partitions(&id(stream), &id("eu"), 2).await?;
    client.delete_partitions(&id(stream), &id("eu"), 1).await?;
    client.delete_segments(&id(stream), &id("eu"), 0, 1).await?;
    assert_eq!(client.describe_options(OptionsScope::Topic).await?.len(), 9);
    assert!(client.get_stream(&id("nowhere")).await?.is_none());
    assert!(client.get_stats().await?.total_disk_space.as_bytes_u64() > 0);
    assert_eq!(client.get_cluster_metadata().await?.nodes.len(), 1);
    assert!(!client.snapshot(SnapshotCompression::Deflated, vec![SystemSnapshotType::Test]).await?.0.is_empty());
    let mut batch: Vec<_> = (0..10).map(|number| message(&number.to_string())).collect();
    let sent = client.send_messages(&id(stream), &id("eu"), &Partitioning::partition_id(1), &mut batch).await?;
    assert_eq!((sent.confirmations[0].partition_id, sent.confirmations[0].base_offset), (1, 0));
    client.flush_unsaved_buffer(&id(stream), &id("eu"), 1, true).await?;
    let pages = [poll(&client, stream, Some(1), PollingStrategy::next(), 6).await?, poll(&client, stream, Some(1), PollingStrategy::next(), 6).await?];
    assert_eq!(texts(&pages[0]), ["0", "1", "2", "3", "4", "5"]);
    assert_eq!(texts(&pages[1]), ["6", "7", "8", "9"]);
    assert_eq!((pages[1].partition_id, pages[1].messages[0].header.offset), (1, 6));
    let reader = Consumer::new(id("reader"));
    client.store_consumer_offset(&reader, &id(stream), &id("eu"), Some(1), 3).await?;
    let stored = client.get_consumer_offset(&reader, &id(stream), &id("eu"), Some(1)).await?.unwrap();
    assert_eq!((stored.partition_id, stored.stored_offset, stored.current_offset), (1, 3, 9));
    assert!(client.get_consumer_offset(&reader, &id(stream), &id("eu"), Some(0)).await?.is_none());
    client.purge_topic(&id(stream), &id("eu")).await?;
    client.delete_topic(&id(stream), &id("eu")).await?;
    client.purge_stream(&id(stream)).await?;
    client.delete_stream(&id(stream)).await
}

/// Users, permissions, passwords and tokens.
async fn users(address: &str, stream: &str) -> Outcome<()> {
    let root = connect(address, "iggy", "iggy").await?;
    root.create_stream(stream).await?;
    root.create_topic(&id(stream), "eu", &partitions(1)).await?;
    let name = format!("u{stream}");
    let rights = Permissions { global: GlobalPermissions { poll_messages: true, ..Default::default() }, streams: None };
    root.create_user(&name, "secret", UserStatus::Active, Some(rights)).await?;
    assert!(connect(address, &name, "wrong").await.is_err());
    let user = connect(address, &name, "secret").await?;
    assert!(poll(&user, stream, Some(0), PollingStrategy::first(), 1).await?.messages.is_empty());
    let sent = user.send_messages(&id(stream), &id("eu"), &Partitioning::partition_id(0), &mut [message("a")]).await;
    assert!(matches!(sent, Err(IggyError::Unauthorized)), "{sent:?}");
    root.update_permissions(&id(&name), Some(Permissions::root())).await?;
    user.send_messages(&id(stream), &id("eu"), &Partitioning::partition_id(0), &mut [message("a")]).await?;
    let token = user.create_personal_access_token("robot", PersonalAccessTokenExpiry::NeverExpire).await?;
    assert_eq!(user.get_personal_access_tokens().await?.len(), 1);
    let robot = make(address);
    robot.connect().await?;
    robot.login_with_personal_access_token(&token.token).await?;
    assert!(robot.get_topic(&id(stream), &id("eu")).await?.is_some());
    user.delete_personal_access_token("robot").await?;
    user.change_password(&id(&name), "secret", "changed").await?;
    assert!(connect(address, &name, "secret").await.is_err());
    root.delete_user(&id(&name)).await?;
    root.delete_stream(&id(stream)).await
}

/// Two members share a group; each message reaches one of them.
async fn group(address: &str, stream: &str) -> Outcome<()> {
    let members = [connect(address, "iggy", "iggy").await?, connect(address, "iggy", "iggy").await?];
    members[0].create_stream(stream).await?;
    members[0].create_topic(&id(stream), "eu", &partitions(4)).await?;
    members[0].create_consumer_group(&id(stream), &id("eu"), "billing").await?;
    for member in &members {
        member.join_consumer_group(&id(stream), &id("eu"), &id("billing")).await?;
    }
    for partition in 0..4 {
        let mut batch: Vec<_> = (0..5).map(|number| message(&format!("{partition}-{number}"))).collect();
        members[0].send_messages(&id(stream), &id("eu"), &Partitioning::partition_id(partition), &mut batch).await?;
    }
    let mut got = Vec::new();
    for _ in 0..4 {
        for member in &members {
            let consumer = Consumer::group(id("billing"));
            let polled = member.poll_messages(&id(stream), &id("eu"), None, &consumer, &PollingStrategy::next(), 5, true).await?;
            got.extend(texts(&polled));
        }
    }
    got.sort();
    let all: Vec<_> = (0..4).flat_map(|partition| (0..5).map(move |number| format!("{partition}-{number}"))).collect();
    assert_eq!(got, all);
    assert!(members[0].get_me().await?.consumer_groups_count == 1);
    members[1].leave_consumer_group(&id(stream), &id("eu"), &id("billing")).await?;
    let raw = members[0].send_binary_request(1, Default::default()).await?;
    assert!(raw.is_empty());
    members[0].delete_stream(&id(stream)).await
}

/// Send a header of each kind, and read it back.
async fn headers(address: &str, stream: &str) -> Outcome<()> {
    let client = connect(address, "iggy", "iggy").await?;
    client.create_stream(stream).await?;
    client.create_topic(&id(stream), "eu", &partitions(1)).await?;
    let typed = IggyMessage::builder().payload("typed".into()).user_headers(kinds()).build()?;
    client.send_messages(&id(stream), &id("eu"), &Partitioning::partition_id(0), &mut [typed]).await?;
    let polled = poll(&client, stream, Some(0), PollingStrategy::first(), 10).await?;
    assert_eq!(polled.messages[0].user_headers_map()?.unwrap(), kinds());
    Ok(())
}

/// Print the headers of the first message that another client has sent.
async fn read(address: &str, stream: &str) -> Outcome<()> {
    let client = connect(address, "iggy", "iggy").await?;
    let polled = poll(&client, stream, Some(0), PollingStrategy::first(), 1).await?;
    for (key, value) in polled.messages[0].user_headers_map()?.unwrap_or_default() {
        println!("{} {} {:?}", String::from_utf8_lossy(&key.value()), value.kind(), value.value().to_vec());
    }
    Ok(())
}

#[tokio::main]
async fn main() {
    let given: Vec<String> = std::env::args().collect();
    let (address, stream) = (given[1].as_str(), given[3].as_str());
    let done = match given[2].as_str() {
        "administration" => administration(address, stream).await,
        "users" => users(address, stream).await,
        "group" => group(address, stream).await,
        "headers" => headers(address, stream).await,
        "read" => read(address, stream).await,
        other => panic!("no scenario {other}"),
    };
    done.unwrap();
}
