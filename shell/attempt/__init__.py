"""One attempt at one shard, on the batch host: facts, bind, servers, endpoints, client, result."""
