-- Shows a gate as it is at one moment. Changes nothing.
--
-- KEYS gate stock pending
-- Replies {view, epoch, state, sale, 1 if it was filled on this server, pending
-- orders, oldest pending (ms; 0: none), then for each SKU: id, units, version and
-- total of the ledger as it was brought here}.
local gate = redis.call('HMGET', KEYS[1], 'epoch', 'state', 'sale', 'server')
local oldest = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
local reply = {'view', gate[1] or '0', gate[2] or '', gate[3] or '', gate[4] == server() and '1' or '0',
  tostring(redis.call('ZCARD', KEYS[3])), oldest[2] or '0'}
local stock = redis.call('HGETALL', KEYS[2])
for i = 1, #stock, 2 do
  reply[#reply + 1], reply[#reply + 2] = stock[i], stock[i + 1]
  reply[#reply + 1] = redis.call('HGET', KEYS[1], 'total:' .. stock[i]) or '0 0'
end
return reply
