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

-- One read and one write for all that is live: see reserve.
local ids, records = {}, {}
for i = 2, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
if #ids > 0 then
  local values = redis.call('HMGET', KEYS[3], unpack(ids))
  for i = 1, #ids do records[ids[i]] = values[i] end
end
local decided, written = {}, {}

local function decide(id, state)
  records[id] = state .. records[id]:sub(2)
  decided[#decided + 1] = id
  written[#written + 1] = id
  written[#written + 1] = records[id]
end

local back = false
for i = 2, #ARGV, 2 do
  local id = ARGV[i]
  local record = records[id]
  local state = record and record:sub(1, 1)
  if ARGV[i + 1] == 'live' and state == 'p' then
    decide(id, 'c')
  elseif ARGV[i + 1] == 'dead' and (state == 'p' or state == 'c') then
    local quantity, sku, length, rest = record:match('^%a (%d+) %-?%d+ (%S+) (%d+) (.*)$')
    redis.call('HINCRBY', KEYS[2], sku, quantity)
    forget(sku .. ' ' .. rest:sub(1, tonumber(length)), id, tonumber(quantity))
    decide(id, 'r')
    back = true
  end
end
if #decided > 0 then
  redis.call('HSET', KEYS[3], unpack(written))
  redis.call('ZREM', KEYS[5], unpack(decided))
end
-- The version tells nodes that remember "sold out" that units came back.
if back then redis.call('HINCRBY', KEYS[1], 'version', 1) end
return {'open', gate[1], #decided}
