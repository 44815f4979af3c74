-- Tells the gate what the ledger decided. Live: a pending reservation is confirmed.
-- Dead: a charged one is released, once, and its units come back; the released
-- record stays as a mark. An unknown or released order changes nothing, so the
-- script may run any number of times, late and out of order.
--
-- KEYS gate stock orders buyers pending
-- ARGV epoch, then for each order: id live|dead
-- Replies {open, epoch, orders changed} or {not-ready, epoch, state}.
local gate, refusal = open_gate(KEYS[1], ARGV[1])
if not gate then return refusal end

local function forget(buyer, id, n)
  local units, ids = redis.call('HGET', KEYS[4], buyer):match('^(%d+)(.*)$')
  local left = tonumber(units) - n
  if left < 1 then return redis.call('HDEL', KEYS[4], buyer) end
  local from, to = ids:find(' ' .. id, 1, true)
  if from then ids = ids:sub(1, from - 1) .. ids:sub(to + 1) end
  redis.call('HSET', KEYS[4], buyer, string.format('%d', left) .. ids)
end

local changed, back = 0, false
for i = 2, #ARGV, 2 do
  local id, record = ARGV[i], redis.call('HGET', KEYS[3], ARGV[i])
  local state = record and record:sub(1, 1)
  if ARGV[i + 1] == 'live' and state == 'p' then
    redis.call('HSET', KEYS[3], id, 'c' .. record:sub(2))
    redis.call('ZREM', KEYS[5], id)
    changed = changed + 1
  elseif ARGV[i + 1] == 'dead' and (state == 'p' or state == 'c') then
    local quantity, sku, length, rest = record:match('^%a (%d+) %-?%d+ (%S+) (%d+) (.*)$')
    redis.call('HINCRBY', KEYS[2], sku, quantity)
    forget(sku .. ' ' .. rest:sub(1, tonumber(length)), id, tonumber(quantity))
    redis.call('HSET', KEYS[3], id, 'r' .. record:sub(2))
    redis.call('ZREM', KEYS[5], id)
    changed, back = changed + 1, true
  end
end
-- The version tells nodes that remember "sold out" that units came back.
if back then redis.call('HINCRBY', KEYS[1], 'version', 1) end
return {'open', gate[1], changed}
