//! A gRPC client that is configured over xDS, of tonic-xds. What it takes and what it prints: see
//! clients/grpcgo.
//!
//! tonic-xds has no CSDS; in its place stand the metrics of its xDS client, a line for each that
//! changes:
//!
//!	csds none
//!	counter NAME VALUE     updates by type
//!	gauge NAME VALUE       resources held, by type and state

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::uri::PathAndQuery;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tonic_xds::{
    BootstrapConfig, Instrument, KeyValue, MetricsRecorder, Value, XdsChannelBuilder,
    XdsChannelConfig, XdsChannelGrpc, XdsUri,
};

/// Prints a line at once.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{}", line.replace('\n', " ")).and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

/// Prints the metrics of the xDS client.
#[derive(Default)]
struct Metrics {
    counters: Mutex<HashMap<String, u64>>,
}

/// A metric's name and what it is of, in one word.
fn key(instrument: &Instrument, attrs: &[KeyValue]) -> String {
    let mut key = instrument.name.to_string();
    for a in attrs {
        if let ("grpc.xds.resource_type" | "grpc.xds.cache_state", Value::Str(s)) =
            (a.key, &a.value)
        {
            key = format!("{key},{s}");
        }
    }
    key
}

impl MetricsRecorder for Metrics {
    fn add_counter_u64(&self, instrument: &'static Instrument, value: u64, attrs: &[KeyValue]) {
        if !instrument.name.starts_with("grpc.xds_client.resource") {
            return;
        }
        let key = key(instrument, attrs);
        let mut counters = self.counters.lock().unwrap();
        let sum = counters.entry(key.clone()).or_default();
        *sum += value;
        say(&format!("counter {key} {sum}"));
    }

    fn record_gauge_i64(&self, instrument: &'static Instrument, value: i64, attrs: &[KeyValue]) {
        if instrument.name.starts_with("grpc.xds_client.resource") {
            say(&format!("gauge {} {value}", key(instrument, attrs)));
        }
    }

    fn add_up_down_counter_i64(&self, _: &'static Instrument, _: i64, _: &[KeyValue]) {}

    fn record_histogram_f64(&self, _: &'static Instrument, _: f64, _: &[KeyValue]) {}
}

/// The bootstrap, with the scheme that tonic-xds wants to see in a server's address.
fn bootstrap() -> BootstrapConfig {
    let file = std::env::var("GRPC_XDS_BOOTSTRAP").expect("GRPC_XDS_BOOTSTRAP");
    let text = std::fs::read_to_string(file).expect("the bootstrap");
    let mut tree: serde_json::Value = serde_json::from_str(&text).expect("the bootstrap");
    let server = &mut tree["xds_servers"][0]["server_uri"];
    *server = format!("http://{}", server.as_str().expect("server_uri")).into();
    BootstrapConfig::from_json(&tree.to_string()).expect("the bootstrap")
}

/// A health check, whose empty request and answer need no Protobuf.
async fn check(channel: &XdsChannelGrpc) -> Result<Response<()>, Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    let unready = |e| Status::unavailable(format!("not ready: {e}"));
    client.ready().await.map_err(unready)?;
    let mut request = Request::new(());
    request.set_timeout(Duration::from_secs(60));
    let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
    client.unary(request, path, ProstCodec::<(), ()>::default()).await
}

/// Makes calls one after the other. Those before the first that is answered are not told, as this
/// client cannot wait until a channel is ready.
async fn calls(channel: XdsChannelGrpc) {
    let mut begun = false;
    loop {
        match check(&channel).await {
            Ok(answer) => {
                begun = true;
                let backend = answer.metadata().get("backend").and_then(|b| b.to_str().ok());
                say(&format!("answered {}", backend.unwrap_or("nobody")));
            }
            Err(status) if begun => {
                say(&format!("failed {:?} {}", status.code(), status.message()))
            }
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
}

fn main() {
    std::thread::spawn(|| {
        let mut all = Vec::new();
        let _ = std::io::stdin().read_to_end(&mut all);
        std::process::exit(0);
    });
    say("csds none");
    let target = std::env::args().nth(1).expect("a target");
    let target = XdsUri::parse(&target).expect("a target");
    let run = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    run.block_on(async {
        let channel = XdsChannelBuilder::new(XdsChannelConfig::new(target).with_bootstrap(bootstrap()))
            .with_metrics_recorder(Arc::new(Metrics::default()))
            .build_grpc_channel()
            .expect("a channel");
        calls(channel).await;
    });
}
