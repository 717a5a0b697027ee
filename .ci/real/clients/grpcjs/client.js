// A gRPC client that is configured over xDS, of Node's grpc-js. What it takes and what it prints:
// see clients/grpcgo. An empty message is the request of a health check, and the answer is not read.
'use strict';

const grpc = require('@grpc/grpc-js');
const xds = require('@grpc/grpc-js-xds');

process.stdin.on('data', () => {});
process.stdin.on('end', () => process.exit(0));
xds.register();

const raw = (message) => message;

// serveCSDS tells what this process holds.
function serveCSDS(then) {
  const server = new grpc.Server();
  grpc.addAdminServicesToServer(server);
  server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
    if (error) {
      throw error;
    }
    console.log(`csds 127.0.0.1:${port}`);
    then();
  });
}

function call(channel, patient) {
  const metadata = new grpc.Metadata({ waitForReady: patient });
  const options = { deadline: Date.now() + 60_000 };
  let backend = [];
  channel
    .makeUnaryRequest('/grpc.health.v1.Health/Check', raw, raw, Buffer.alloc(0), metadata, options, (error) => {
      if (error) {
        console.log(`failed ${grpc.status[error.code]} ${error.details.replaceAll('\n', ' ')}`);
      } else {
        console.log(`answered ${backend.join(',')}`);
      }
      setTimeout(call, 4, channel, false);
    })
    .on('metadata', (header) => {
      backend = header.get('backend');
    });
}

serveCSDS(() => call(new grpc.Client(process.argv[2], grpc.credentials.createInsecure()), true));
