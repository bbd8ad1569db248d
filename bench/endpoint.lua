-- The small request of bench/endpoint_load.py, for wrk; the argument is the client's token.
function init(args)
   wrk.method = "POST"
   wrk.body = '{"model":"m","messages":[{"role":"user","content":"hello"}]}'
   wrk.headers["Accept"] = "*/*"
   wrk.headers["Accept-Encoding"] = "gzip, deflate"
   wrk.headers["Connection"] = "keep-alive"
   wrk.headers["User-Agent"] = "python-httpx/0.28"
   wrk.headers["Authorization"] = "Bearer " .. args[1]
   wrk.headers["Content-Type"] = "application/json"
   small = wrk.format()
end

function request()
   return small
end
