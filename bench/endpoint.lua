-- The small requests of bench/endpoint_load.py, for wrk: 64 of different lengths. The argument is the client's token.
function init(args)
   wrk.method = "POST"
   wrk.headers["Accept"] = "*/*"
   wrk.headers["Accept-Encoding"] = "gzip, deflate"
   wrk.headers["Connection"] = "keep-alive"
   wrk.headers["User-Agent"] = "python-httpx/0.28"
   wrk.headers["Authorization"] = "Bearer " .. args[1]
   wrk.headers["Content-Type"] = "application/json"
   requests = {}
   for n = 0, 63 do
      local content = "hello" .. string.rep("o", 7 * n)
      requests[n] = wrk.format(nil, nil, nil, '{"model":"m","messages":[{"role":"user","content":"' .. content .. '"}]}')
   end
   sent = 0
end

function request()
   sent = sent + 1
   return requests[sent % 64]
end
