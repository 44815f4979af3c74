-- Writes one chunk of a rebuilt gate. Refused unless the gate was closed under
-- this very epoch. The first chunk throws the old contents away.
--
-- KEYS gate stock orders buyers keys pending
-- ARGV epoch, first (1|0), number of SKUs, then for each SKU: id stock limit total
--      version, then for each order: id record
local gate = redis.call('HMGET', KEYS[1], 'epoch', 'state')
if gate[1] ~= ARGV[1] or gate[2] ~= 'closed' then
  return {'refused', gate[1] or ''}
end
if ARGV[2] == '1' then
  redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6])
  redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'state', 'closed', 'filled', ARGV[1])
end
local i = 4
for _ = 1, tonumber(ARGV[3]) do
  redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
  redis.call('HSET', KEYS[1], 'limit:' .. ARGV[i], ARGV[i + 2])
  redis.call('HSET', KEYS[1], 'total:' .. ARGV[i], ARGV[i + 4] .. ' ' .. ARGV[i + 3])
  i = i + 5
end
while i < #ARGV do
  local id, record = ARGV[i], ARGV[i + 1]
  i = i + 2
  if redis.call('HSETNX', KEYS[3], id, record) == 1 then
    local state, quantity, sku, field = record:match('^(%a) (%d+) %-?%d+ (%S+) (%d+ .*)$')
    local length, rest = field:match('^(%d+) (.*)$')
    length = tonumber(length)
    if #rest > length then redis.call('HSET', KEYS[5], field, id) end
    if state ~= 'r' then
      local buyer = sku .. ' ' .. rest:sub(1, length)
      local units, ids = (redis.call('HGET', KEYS[4], buyer) or '0'):match('^(%d+)(.*)$')
      redis.call('HSET', KEYS[4], buyer,
        string.format('%d', tonumber(units) + tonumber(quantity)) .. ' ' .. id .. ids:sub(1, 31 * 23))
    end
  end
end
return {'closed', ARGV[1]}
